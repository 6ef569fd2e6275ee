# Joining a job.
libamphora_la_SOURCES += \
	boot/boot.c boot/boot.h boot/control.c boot/control.h boot/frames.c boot/frames.h boot/jobfile.c boot/kind.h boot/launcher.c \
	boot/pmi1.c boot/pmi1.h boot/pmi1_wire.c boot/single.c boot/values.c
