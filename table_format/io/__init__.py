"""Object stores: the port (`store`), its adapters and the scheme resolver."""
