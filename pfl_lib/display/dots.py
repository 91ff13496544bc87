"""How the paper's values look as dots."""

PAPER = {"marker": "o", "markerfacecolor": "white", "color": "#333333", "linestyle": "none"}
