"""Session logs in a database, SQLite or PostgreSQL, through SQLAlchemy Core.

One invariant: every row is chained to the one before it, so what is read is what was written, or an error.
"""
