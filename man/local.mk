dist_man_MANS += man/amphora-info.1
