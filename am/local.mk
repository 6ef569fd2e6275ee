# Active messages.
libamphora_la_SOURCES += am/address.c am/address.h am/am.h am/deliver.c am/dispatch.c am/endpoint.c am/ep.h am/exit.c am/gather.c \
	am/job.c am/job.h am/longs.c am/pagesize.c am/poll.c am/rma.c am/send.c am/waiting.c
