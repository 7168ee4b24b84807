"""How long pushes, references, searches and impact take with 10, 1,000 and 100,000 versions: see registry_scale.py."""

from registry_scale import main

if __name__ == "__main__":
    main()
