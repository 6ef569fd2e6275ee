libamphora_la_SOURCES += boot/boot.h
