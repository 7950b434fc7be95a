"""What bodies and answers look like: a module for each area; ``common`` has what they share."""
