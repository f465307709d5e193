import drawahead as da

try:
    da.adapters.ProteinMPNN("missing.pt", "missing.pdb")
except da.InputError as error:
    assert "missing" in str(error)
