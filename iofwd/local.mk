# iofwd
