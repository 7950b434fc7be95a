"""All settings, each declared once with name, type, default, description, allowed values and flag.

What reads, checks and shows them derives from that: arguments of programs, flags, variables, the file, documents.
"""
