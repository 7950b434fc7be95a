"""The steps from each version of the store's schema to the next, as Alembic revisions, which ``upgrading`` runs."""
