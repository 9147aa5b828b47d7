/// What a build says of itself.
#ifndef UPLOADFS_CBUILDINFORMATION_H
#define UPLOADFS_CBUILDINFORMATION_H

/// The commit that was built; empty where the build was not told. In C, so that another commit compiles one file anew.
const char *uploadfs_build_commit(void);

#endif
