"""Defects that laws must catch, planted in correct hosts."""
