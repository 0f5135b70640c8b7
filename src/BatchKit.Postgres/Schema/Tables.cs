namespace BatchKit.Postgres.Schema;

/// <summary>The tables of one schema, as quoted names for statements.</summary>
internal sealed class Tables
{
    public Tables(string schema)
    {
        Schema = schema;
        Quoted = $"\"{schema.Replace("\"", "\"\"", StringComparison.Ordinal)}\"";
    }

    /// <summary>The schema's name as the user gave it.</summary>
    public string Schema { get; }

    public string Quoted { get; }

    public string Version => $"{Quoted}.version";

    public string Queues => $"{Quoted}.queues";

    public string Producers => $"{Quoted}.producers";

    public string Messages => $"{Quoted}.messages";

    public string Claims => $"{Quoted}.claims";

    public string Shards => $"{Quoted}.shards";

    public string UniqueKeys => $"{Quoted}.unique_keys";

    public string Dead => $"{Quoted}.dead";
}
