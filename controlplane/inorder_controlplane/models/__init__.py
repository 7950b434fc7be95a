"""The models of bodies and answers, a module for each area; ``common`` has the shared ones."""
