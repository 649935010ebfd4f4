"""The database: one interface (`store.Store`) and two engines, SQLite and PostgreSQL."""
