libamphora_la_SOURCES += am/am.h
