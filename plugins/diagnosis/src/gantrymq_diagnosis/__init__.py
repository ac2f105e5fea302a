"""Diagnosis of consumer groups: conflicts between members, and reasons why a group receives nothing."""
