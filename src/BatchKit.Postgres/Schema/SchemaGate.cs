using Npgsql;

namespace BatchKit.Postgres.Schema;

/// <summary>Makes sure, once, that the schema is there before it is used; a failed attempt is made again by the next caller. Any thread.</summary>
internal sealed class SchemaGate(NpgsqlDataSource dataSource, string schema, bool mayCreate)
{
    public ValueTask PassAsync(CancellationToken cancellationToken) => throw new NotSupportedException($"{dataSource is null} {schema} {mayCreate} {cancellationToken.CanBeCanceled}");
}
