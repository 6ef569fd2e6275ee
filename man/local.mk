dist_man_MANS += man/amphora-info.1
dist_man_MANS += man/amphora-run.1
dist_man_MANS += man/iofwd-server.1
