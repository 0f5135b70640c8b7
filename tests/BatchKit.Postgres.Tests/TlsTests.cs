using System.Security.Cryptography.X509Certificates;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>With <c>SSL Mode=VerifyFull</c> Npgsql refuses a server whose certificate is not good: the start fails and says why, and nothing is stored.</summary>
[Trait("Lane", "slow: one rule for each way to connect")]
public sealed class TlsTests : IDisposable
{
    // The alerts protocol_version and illegal_parameter (RFC 8446, section 6).
    private static readonly byte[] Refusals = [70, 47];

    private readonly TestAuthority _authority = new();

    public void Dispose() => _authority.Dispose();

    [Theory]
    [InlineData("good", true)]
    [InlineData("self-signed", false)]
    [InlineData("for another host", false)]
    [InlineData("expired", false)]
    public async Task Only_a_server_with_a_good_certificate_gets_what_is_sent(string kind, bool isAccepted)
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        using var certificate = kind == "self-signed" ? TestAuthority.MakeSelfSigned() : _authority.Issue(kind == "for another host" ? "db.example" : "127.0.0.1", expired: kind == "expired");
        await using var server = await PostgresServer.StartOwnAsync(new PostgresServerOptions { Certificate = certificate });
        await using var checking = CheckingDataSource(server.ConnectionString);

        var failures = await TryAsync(checking);

        await using var schema = TestSchema.On(server, "tls");
        if (isAccepted)
        {
            Assert.All(failures, Assert.Null);
            Assert.Equal(1, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
            await using var command = checking.CreateCommand("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
            Assert.Equal(true, await command.ExecuteScalarAsync());
            return;
        }

        Assert.All(failures, failure => Assert.Contains("SSL handshake: The remote certificate", failure?.Message, StringComparison.Ordinal));
        Assert.False(await schema.ScalarAsync<bool>("select exists (select from pg_namespace where nspname = 'tls')"));
    }

    [Fact]
    public async Task A_server_that_speaks_only_TLS_1_1_is_refused()
    {
        await using var server = OldTlsServer.Start(isPostgres: true);
        await using var checking = CheckingDataSource($"Host=127.0.0.1;Port={server.Port};Username=postgres;Database=postgres");

        var failures = await TryAsync(checking);

        Assert.Contains(await server.Refused.WithinDeadline(), Refusals);
        Assert.All(failures, failure => Assert.Contains("SSL handshake", failure?.Message, StringComparison.Ordinal));
    }

    private NpgsqlDataSource CheckingDataSource(string connectionString)
    {
        var builder = new NpgsqlDataSourceBuilder(new NpgsqlConnectionStringBuilder(connectionString) { SslMode = SslMode.VerifyFull }.ConnectionString);
        builder.UseRootCertificate(X509CertificateLoader.LoadCertificate(_authority.Certificate.RawData));
        return builder.Build();
    }

    // A send, and the starts of a transport and a receiver that fail fast.
    private static async Task<Exception?[]> TryAsync(NpgsqlDataSource dataSource)
    {
        await using var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = "tls" });
        return
        [
            await Record.ExceptionAsync(() => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), 1, "secret") }, CancellationToken.None).AsTask().WithinDeadline()),
            await StartAsync(static services => services.AddBatchKit().UsePostgres(options => (options.Schema, options.FailFast) = ("tls", true))),
            await StartAsync(static services => services.AddPostgresQueueReceiver("tasks", static _ => new KeepingHandler(), static options => (options.Schema, options.FailFast) = ("tls", true))),
        ];

        async Task<Exception?> StartAsync(Action<IServiceCollection> use)
        {
            var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
            builder.Services.AddSingleton(dataSource);
            use(builder.Services.AddLogging());
            using var host = builder.Build();
            var failure = await Record.ExceptionAsync(() => host.StartAsync().WithinDeadline());
            await host.StopAsync().WithinDeadline();
            return failure;
        }
    }
}
