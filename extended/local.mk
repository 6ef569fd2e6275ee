# extended
