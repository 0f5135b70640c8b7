using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.TestServers.RabbitMQ;
using Npgsql;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.Benchmarks.Brokers;

/// <summary>The servers that <c>run</c> is told to use: each is tried before anything is measured, and an error names the option.</summary>
internal static class NamedServers
{
    public static async Task UseRabbitMqAsync(string option, Uri address, CancellationToken cancellationToken)
    {
        try
        {
            await using var connection = await new ConnectionFactory { Uri = address }.CreateConnectionAsync(cancellationToken);
        }
        catch (ArgumentException malformed)
        {
            throw new UsageException($"{option} must be an address as amqp://user:password@host:port/vhost: {malformed.Message}");
        }
        catch (BrokerUnreachableException unreachable)
        {
            throw new InvalidOperationException($"{option}: RabbitMQ at {BrokerAddress.From(address).Host} can't be used: {(unreachable.InnerException ?? unreachable).Message}", unreachable);
        }

        Environment.SetEnvironmentVariable(RabbitMqServer.AddressVariable, address.ToString());
    }

    public static void ReachMqtt(string option, Uri server)
    {
        try
        {
            using var connection = new RawConnection(server.Port);
        }
        catch (Exception failure) when (failure is SocketException or IOException or AuthenticationException or CryptographicException)
        {
            throw new InvalidOperationException($"{option}: the broker at {server.Host}:{server.Port} can't be used: {failure.Message}", failure);
        }
    }

    /// <summary>Refuses a database whose tables a measurement would empty.</summary>
    public static async Task RequireEmptyDatabaseAsync(string option, string connectionString, IEnumerable<string> schemas, CancellationToken cancellationToken)
    {
        NpgsqlConnectionStringBuilder parts;
        try
        {
            parts = new NpgsqlConnectionStringBuilder(connectionString);
        }
        catch (ArgumentException malformed)
        {
            throw new UsageException($"{option} must be a connection string as Host=localhost;Username=me;Database=empty: {malformed.Message}");
        }

        if (string.IsNullOrEmpty(parts.Host))
            throw new UsageException($"{option} must be a connection string as Host=localhost;Username=me;Database=empty: it has no Host.");

        try
        {
            await using var connection = new NpgsqlConnection(connectionString);
            await connection.OpenAsync(cancellationToken);
            await using var command = new NpgsqlCommand("select string_agg(nspname, ', ') from pg_namespace where nspname = any($1)", connection);
            command.Parameters.Add(new NpgsqlParameter<string[]> { TypedValue = [.. schemas] });
            if (await command.ExecuteScalarAsync(cancellationToken) is string taken)
                throw new InvalidOperationException($"{option}: the database {connection.Database} has the schemas that a run makes, empties and drops ({taken}). Name an empty database, or drop them.");
        }
        catch (NpgsqlException failure)
        {
            throw new InvalidOperationException($"{option}: PostgreSQL at {parts.Host}:{parts.Port} can't be used: {MessageOf(failure)}", failure);
        }
    }

    /// <summary>The first line of what a database, or output to it, failed with.</summary>
    public static string MessageOf(Exception failure) => (failure.InnerException ?? failure).Message.Split('\n')[0];
}
