using System.Globalization;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using BatchKit.TestServers.Network;

namespace BatchKit.TestServers.RabbitMQ;

/// <summary>What tests change on a running broker that they started. For the installed RabbitMQ 3.</summary>
public static class RabbitMqControl
{
    private const string Tester = "<<\"test\">>";
    private const string VirtualHost = "<<\"/\">>";

    // A connection is added to this list without waiting, and the list is complete after a synchronisation.
    private const string Connections = "begin pg_local:sync(), rabbit_networking:local_connections() end";

    private const int MaxMessageBytes = 134_217_728;

    private static readonly UTF8Encoding Strict = new(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    /// <summary>Writes a text as an Erlang binary.</summary>
    /// <exception cref="EncoderFallbackException">It is no Unicode.</exception>
    public static string Binary(string text) => $"<<{string.Join(',', Strict.GetBytes(text))}>>";

    /// <summary>Adds a user with rights on the objects whose names match: regular expressions, as RabbitMQ has them.</summary>
    public static async Task AddUserAsync(this RabbitMqServer server, string user, string password, string configure = ".*", string write = ".*", string read = ".*")
    {
        await server.EvaluateAsync($"ok = rabbit_auth_backend_internal:add_user({Binary(user)}, {Binary(password)}, {Tester})");
        await server.GrantAsync(user, configure, write, read);
    }

    /// <summary>Replaces a user's rights.</summary>
    public static Task GrantAsync(this RabbitMqServer server, string user, string configure = ".*", string write = ".*", string read = ".*") =>
        server.EvaluateAsync($"ok = rabbit_auth_backend_internal:set_permissions({Binary(user)}, {VirtualHost}, {Binary(configure)}, {Binary(write)}, {Binary(read)}, {Tester})");

    /// <summary>Takes a user's access to the virtual host.</summary>
    public static Task ClearPermissionsAsync(this RabbitMqServer server, string user) =>
        server.EvaluateAsync($"ok = rabbit_auth_backend_internal:clear_permissions({Binary(user)}, {VirtualHost}, {Tester})");

    /// <summary>Changes a user's password.</summary>
    public static Task ChangePasswordAsync(this RabbitMqServer server, string user, string password) =>
        server.EvaluateAsync($"ok = rabbit_auth_backend_internal:change_password({Binary(user)}, {Binary(password)}, {Tester})");

    /// <summary>Closes all connections of a user; nothing that is sent on them later is taken.</summary>
    /// <remarks>Each connection is asked for its user: the broker's own list of a user's connections (<c>close_all_user_connections</c>) is written behind, and may lack one that has just begun.</remarks>
    /// <exception cref="InvalidOperationException">The user has none.</exception>
    public static Task CloseConnectionsAsync(this RabbitMqServer server, string user) => server.EvaluateAsync(
        $"[_ | _] = [ok = rabbit_networking:close_connection(C, \"The rights were changed.\") || C <- {Connections}, (catch rabbit_networking:connection_info(C, [user])) =:= [{{user, {Binary(user)}}}]]");

    /// <summary>Raises or ends the alarm of a full disk. No connection that is open then takes a message between this and the end of the alarm.</summary>
    public static Task SetDiskAlarmAsync(this RabbitMqServer server, bool isOn) => SetAlarmAsync(server, DiskLimit(isOn));

    /// <summary>Raises or ends the alarm of a full memory, as <see cref="SetDiskAlarmAsync"/> does that of a full disk.</summary>
    public static Task SetMemoryAlarmAsync(this RabbitMqServer server, bool isOn) => SetAlarmAsync(server, MemoryLimit(isOn));

    /// <summary>Sets the largest message that channels opened from now on take.</summary>
    public static Task SetMaxMessageBytesAsync(this RabbitMqServer server, int bytes) => server.EvaluateAsync(MessageLimit(bytes));

    /// <summary>Sets all of the above back, but for users.</summary>
    public static Task ResetAsync(this RabbitMqServer server) => server.EvaluateAsync($"{DiskLimit(isFull: false)}, {MemoryLimit(isFull: false)}, {MessageLimit(MaxMessageBytes)}");

    /// <summary>Has the broker listen for TLS, with a certificate of the caller's choice, on a port of its own, which is returned. A restart ends it.</summary>
    /// <param name="server">The broker.</param>
    /// <param name="certificate">The certificate, with its private key.</param>
    /// <param name="version">The only version of TLS that it speaks, as Erlang calls it (<c>tlsv1.1</c>); null leaves the broker's own choice.</param>
    public static async Task<int> ListenForTlsAsync(this RabbitMqServer server, X509Certificate2 certificate, string? version = null)
    {
        var port = FreePort.Take(1)[0];
        var files = server.WriteCertificate(certificate);
        var versions = version is null ? string.Empty : $", {{versions, ['{version}']}}";
        await server.EvaluateAsync(string.Create(
            CultureInfo.InvariantCulture,
            $"rabbit_networking:ensure_ssl(), ok = rabbit_networking:start_ssl_listener({{\"127.0.0.1\", {port}}}, [{{certfile, \"{files.Certificate}\"}}, {{keyfile, \"{files.Key}\"}}, {{verify, verify_none}}{versions}], 2)"));
        return port;
    }

    // The monitor tells the process of alarms, and that one tells the connections, without waiting. Each answers what it is asked after it has read what it was told before.
    private static Task<string> SetAlarmAsync(RabbitMqServer server, string limit) =>
        server.EvaluateAsync($"{limit}, rabbit_alarm:get_alarms(), [catch rabbit_networking:connection_info(C, [pid]) || C <- {Connections}]");

    private static string DiskLimit(bool isFull) => $"ok = rabbit_disk_monitor:set_disk_free_limit(\"{(isFull ? "1000000GB" : "50MB")}\")";

    private static string MemoryLimit(bool isFull) => $"ok = vm_memory_monitor:set_vm_memory_high_watermark({(isFull ? "0.00001" : "0.4")})";

    private static string MessageLimit(int bytes) => string.Create(CultureInfo.InvariantCulture, $"ok = application:set_env(rabbit, max_message_size, {bytes})");
}
