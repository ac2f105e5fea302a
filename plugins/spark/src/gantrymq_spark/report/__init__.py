"""HTML reports of jobs: self-contained pages."""
