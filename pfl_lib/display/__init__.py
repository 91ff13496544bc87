"""Tables and figures of any result, and the theme they share."""
