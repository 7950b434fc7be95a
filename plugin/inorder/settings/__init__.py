"""All settings, each declared once: name, type, default, words, what is allowed, and its flag.

What reads, checks and shows them derives from that: arguments of programs, flags, variables, the file, documents.
"""
