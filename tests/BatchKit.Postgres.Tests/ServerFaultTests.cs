using System.Net.Sockets;
using BatchKit.Postgres.Tests.Sending;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>What is said of an error of the server: one line without a row's content, and what to change only where the error shows it.</summary>
public sealed class ServerFaultTests(PostgresFixture postgres)
{
    private const string Address = "Check that the server runs, and its address in the connection string.";
    private const string Identity = "Check the database and its user";

    [Theory]
    [InlineData("28P01", Identity)]
    [InlineData("3D000", Identity)]
    [InlineData("3F000", Identity)]
    [InlineData("42501", Identity)]
    [InlineData("55P03", "lock_timeout")]
    [InlineData("57014", "statement_timeout")]
    [InlineData("57P05", "idle_session_timeout")]
    [InlineData("53300", "max_connections")]
    [InlineData("53100", "disk space")]
    [InlineData("26000", nameof(PostgresOptions.UsePreparedStatements))]
    public void Advice_names_what_the_error_shows(string state, string advice)
    {
        var text = ServerFault.Describe(Fault(state));

        Assert.StartsWith($"The server said: it failed (SQLSTATE {state}). ", text, StringComparison.Ordinal);
        Assert.Contains(advice, text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("40001")]
    [InlineData("40P01")]
    [InlineData("XX000")]
    public void An_error_that_shows_nothing_to_change_has_no_advice(string state) =>
        Assert.Equal($"The server said: it failed (SQLSTATE {state}).", ServerFault.Describe(Fault(state)));

    [Fact]
    public void A_server_that_is_not_reached_has_the_setting_to_check_once()
    {
        var refused = new NpgsqlException("Failed to connect to 127.0.0.1:1", new SocketException((int)SocketError.ConnectionRefused));
        var several = new NpgsqlException("No suitable host was found.", new AggregateException(refused, new NpgsqlException("Failed to connect to 127.0.0.1:2", new TimeoutException())));

        Assert.Equal($"Failed to connect to 127.0.0.1:1: Connection refused. {Address}", ServerFault.Describe(refused));
        Assert.Equal($"The operation has timed out. {Address}", ServerFault.Describe(new NpgsqlException("The operation has timed out", new TimeoutException("The operation has timed out"))));
        Assert.Equal(
            $"No suitable host was found: Failed to connect to 127.0.0.1:1: Connection refused. Failed to connect to 127.0.0.1:2: The operation has timed out. {Address}", ServerFault.Describe(several));
    }

    [Fact]
    public void An_exhausted_pool_is_no_matter_of_the_address() => Assert.DoesNotContain(
        Address, ServerFault.Describe(new NpgsqlException("The connection pool has been exhausted, either raise 'Max Pool Size'", new TimeoutException())), StringComparison.Ordinal);

    [Fact]
    public void Details_are_left_out_wherever_the_error_is()
    {
        var fault = Fault("23502");

        Assert.DoesNotContain("secret", ServerFault.Describe(new NpgsqlException("It failed", fault)), StringComparison.Ordinal);
        Assert.Equal("It failed.", ServerFault.Describe(new InvalidOperationException("It failed.", fault)));
    }

    [Fact]
    public async Task A_send_that_fails_quotes_no_row_and_takes_one_line()
    {
        await using var place = SendingPlace.Make(await postgres.NewTablesAsync(), settings: "Include Error Detail=true");
        await place.SendAsync(place.Batch("tasks", 1, "first"));
        await place.Schema.ExecuteAsync("delete from {s}.messages; alter table {s}.messages add column tenant int not null");

        var error = await place.FailSendAsync(2, "password=hunter2");

        Assert.Contains("Failing row", error.InnerException!.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("Failing row", error.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("\n", error.Message, StringComparison.Ordinal);
        Assert.DoesNotContain(Identity, error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Health_takes_one_line_too()
    {
        await using var place = SendingPlace.Make(await postgres.NewSchemaAsync(), settings: "Database=no_such_database");

        var fault = await place.Transport.FindFaultAsync(TestContext.Current.CancellationToken);

        Assert.Contains(Identity, fault, StringComparison.Ordinal);
        Assert.DoesNotContain("\n", fault, StringComparison.Ordinal);
    }

    private static PostgresException Fault(string state) => new("it failed", "ERROR", "ERROR", state, detail: "Failing row contains (secret).");
}
