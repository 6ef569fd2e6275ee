libamphora_la_SOURCES += conduits/conduit.h conduits/emulate.c conduits/emulate.h conduits/registry.c \
	conduits/smp/mem.c conduits/smp/progress.c conduits/smp/ring.h conduits/smp/send.c conduits/smp/smp.c conduits/smp/smp.h \
	conduits/smp/wait.c
