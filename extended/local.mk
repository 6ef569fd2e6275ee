libamphora_la_SOURCES += extended/amphora.c extended/barrier.c extended/barrier.h extended/event.c extended/event.h extended/gasnet1.c \
	extended/gex.h extended/init.c extended/memset.c extended/message.c extended/objects.c extended/rma.c extended/segment.c \
	extended/system.c

# The public API: installed headers.
include_HEADERS += include/gasnetex.h include/gasnet.h include/amphora.h
amphoraincludedir = $(includedir)/amphora
amphorainclude_HEADERS = include/amphora/args.h include/amphora/compiler.h include/amphora/event.h include/amphora/gasnet1.h \
	include/amphora/job.h include/amphora/lock.h include/amphora/message.h include/amphora/rma.h include/amphora/team.h \
	include/amphora/threadmode.h include/amphora/types.h
