"""Read, write, edit and search files of a session's workspace, without leaving it."""
