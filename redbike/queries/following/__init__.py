"""Followers: when their parents make them due, what they wait for, and which job follows which."""
