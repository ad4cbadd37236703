"""Skills as folders: SKILL.md files below the harness home and the project, a catalog and a tool."""
