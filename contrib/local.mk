# Recipes for the tools of sites; contrib/README.md says how far each was tried.
RECIPES = contrib/apptainer/trireme.def \
	contrib/easybuild/trireme-0.1.0-gompi-2023b-CUDA-12.4.0.eb \
	contrib/easybuild/trireme-0.1.0-gompi-2023b.eb \
	contrib/reframe/trireme_check.py \
	contrib/spack/spack_repo/trireme/packages/trireme/package.py \
	contrib/spack/spack_repo/trireme/repo.yaml
EXTRA_DIST += contrib/README.md $(RECIPES)
