libamphora_la_SOURCES += conduits/conduit.h
