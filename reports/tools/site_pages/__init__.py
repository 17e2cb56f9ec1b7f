"""The pages of the site that are written from the catalogue, the findings and the reports."""
