"""Figures and the HTML report, drawn from views of the results."""
