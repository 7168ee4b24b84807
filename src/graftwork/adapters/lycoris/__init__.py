"""LoHa and LoKr, of the LyCORIS family: https://github.com/KohakuBlueleaf/LyCORIS"""
