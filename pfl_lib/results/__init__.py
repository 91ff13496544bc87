"""What a run gave, the files it is kept in, and what several runs of one setting say together."""
