using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>A trigger that fails a kind of statement on a table with a given SQLSTATE, a few times; a sequence counts, because it does not roll back. Disposing drops the schema.</summary>
internal sealed class InjectedFailure : IAsyncDisposable
{
    /// <summary>How often it fails.</summary>
    public const int Times = 3;

    private readonly TestSchema _schema;

    private InjectedFailure(TestSchema schema) => _schema = schema;

    public static async Task<InjectedFailure> InAsync(TestSchema schema, string statement, string table, string sqlState)
    {
        await schema.ExecuteAsync($$"""
            create sequence {s}.failures;
            create function {s}.fail() returns trigger language plpgsql as $$ begin
                if nextval('{s}.failures') <= {{Times}} then raise exception 'injected' using errcode = '{{sqlState}}'; end if; return null; end $$;
            create trigger fail before {{statement}} on {s}.{{table}} for each statement execute function {s}.fail()
            """);
        return new InjectedFailure(schema);
    }

    /// <summary>How often such a statement ran, those that failed included.</summary>
    public Task<long> CountAsync() => _schema.ScalarAsync<long>("select last_value from {s}.failures where is_called");

    public ValueTask DisposeAsync() => _schema.DisposeAsync();
}
