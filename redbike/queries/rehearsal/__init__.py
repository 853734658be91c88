"""Rehearse an action: compute what would happen, and change nothing."""
