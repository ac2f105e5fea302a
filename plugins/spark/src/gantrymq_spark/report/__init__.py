"""Reports of jobs: one HTML page without anything outside of it."""
