"""Reports that people read: one HTML file each, with its plots inside.

plots       bars and lines as SVG
page        the HTML around them
"""
