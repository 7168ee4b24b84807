"""Webhooks: a tenant's events, sent to where he says, signed, again and again until somebody took them."""
