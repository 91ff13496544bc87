"""Notebooks executed without a screen, and the HTML pages made of them."""
