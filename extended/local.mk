# The public API: installed headers.
include_HEADERS += include/gasnetex.h include/gasnet.h include/amphora.h
amphoraincludedir = $(includedir)/amphora
amphorainclude_HEADERS = include/amphora/args.h include/amphora/compiler.h include/amphora/event.h include/amphora/gasnet1.h \
	include/amphora/job.h include/amphora/lock.h include/amphora/message.h include/amphora/rma.h include/amphora/team.h \
	include/amphora/threadmode.h include/amphora/types.h
