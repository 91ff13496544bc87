"""Clients, model, schedule and seed as one object, and what a method may ask of it."""
