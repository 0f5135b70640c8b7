namespace BatchKit.Postgres.Schema;

/// <summary>The statements that make the tables: one step a version. A step that was published never changes; a change is a further step.</summary>
internal sealed class SchemaSteps(params Func<Tables, string>[] steps)
{
    /// <summary>The steps of this package.</summary>
    public static SchemaSteps Published { get; } = new(FirstVersion.Script);

    /// <summary>The version that the last step leads to.</summary>
    public int Version => steps.Length;

    /// <summary>The steps behind a version, and the number that remembers them.</summary>
    public string After(int version, Tables tables) =>
        $"""
        {string.Join('\n', steps[version..].Select(step => step(tables)))}
        delete from {tables.Version};
        insert into {tables.Version} (number) values ({Version});

        """;
}
