bin_PROGRAMS += amphora-info
amphora_info_SOURCES = tools/amphora-info.c
amphora_info_LDADD = libamphora.la libtopo.la
