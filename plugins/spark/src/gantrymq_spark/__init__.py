"""Messages as Spark DataFrames, from live topics and from store folders.

    columns                              the columns of a message
    batches, record_fields, slices,      stored records as Arrow batches, made of columns and without objects for rows
    property_texts

Nothing here imports pyspark before it is used.
"""
