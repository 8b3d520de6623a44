# Profiles of machines, for `trireme plan`: what users copy and edit.
nobase_dist_pkgdata_DATA += $(wildcard $(srcdir)/machines/*.conf)
