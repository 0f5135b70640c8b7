namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What must hold with many worker processes, with no test beside it.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
public sealed class PostgresHoldCollection
{
    public const string Name = "PostgreSQL holds";
}
