"""access: who may call and who did what; here names, tenants and the event log."""
