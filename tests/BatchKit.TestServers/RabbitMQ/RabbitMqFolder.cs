using System.Globalization;
using System.Security.Cryptography.X509Certificates;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.RabbitMQ;

/// <summary>One broker's folder: its configuration, data, ports, and how its programs are started there.</summary>
internal sealed class RabbitMqFolder
{
    private static readonly string[] ScriptFolders = ["/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"];

    private readonly string _scripts;
    private readonly string _path;
    private readonly Dictionary<string, string> _environment;
    private readonly int _portMapperPort;

    private RabbitMqFolder(string scripts, string path, int[] ports)
    {
        _scripts = scripts;
        _path = path;
        Port = ports[0];
        _portMapperPort = ports[2];
        _environment = new Dictionary<string, string>(StringComparer.Ordinal)
        {
            ["HOME"] = path,
            ["ERL_EPMD_PORT"] = Text(_portMapperPort),
            ["ERL_EPMD_ADDRESS"] = "127.0.0.1",
            ["RABBITMQ_NODENAME"] = $"batchkit{Text(Port)}@localhost",
            ["RABBITMQ_NODE_PORT"] = Text(Port),
            ["RABBITMQ_DIST_PORT"] = Text(ports[1]),
            ["RABBITMQ_MNESIA_BASE"] = Path.Combine(path, "data"),
            ["RABBITMQ_LOG_BASE"] = Path.Combine(path, "log"),
            ["RABBITMQ_PID_FILE"] = PidFile,
            ["RABBITMQ_ENABLED_PLUGINS_FILE"] = Path.Combine(path, "plugins"),
            ["RABBITMQ_CONFIG_FILE"] = ConfigurationFile,
            ["RABBITMQ_GENERATED_CONFIG_DIR"] = Path.Combine(path, "generated"),
        };
    }

    public int Port { get; }

    public int TlsPort { get; private set; }

    private string PidFile => Path.Combine(_path, "pid");

    private string ConfigurationFile => Path.Combine(_path, "rabbitmq.conf");

    public static string? FindScripts() =>
        Array.Find(ScriptFolders, folder => File.Exists(Path.Combine(folder, "rabbitmq-server")));

    public static RabbitMqFolder Create(RabbitMqServerOptions options)
    {
        var scripts = FindScripts() ?? throw new ServerStartException("RabbitMQ is not installed.");
        var ports = FreePort.Take(4);
        var folder = new RabbitMqFolder(scripts, Directory.CreateTempSubdirectory("batchkit-rabbitmq-").FullName, ports);
        // Unless told, it listens on all addresses.
        var lines = new List<string> { $"listeners.tcp.local = 127.0.0.1:{Text(folder.Port)}" };
        if (options.MaxMessageBytes is { } bytes)
            lines.Add($"max_message_size = {Text(bytes)}");
        if (options.Certificate is { } certificate)
        {
            folder.TlsPort = ports[3];
            folder.AddTls(certificate, lines);
        }

        File.WriteAllLines(folder.ConfigurationFile, lines);
        File.WriteAllText(Path.Combine(folder._path, "plugins"), "[].");
        return folder;
    }

    /// <summary>Starts Erlang's port mapper in the foreground: left to the broker it would start as a daemon that outlives the test.</summary>
    public ServerProcess StartPortMapper() =>
        ServerProcess.Start("epmd", ["-port", Text(_portMapperPort), "-address", "127.0.0.1"], _environment);

    public ServerProcess StartBroker()
    {
        File.Delete(PidFile);
        return ServerProcess.Start(Path.Combine(_scripts, "rabbitmq-server"), [], _environment);
    }

    public ServerProcess StartControl(string[] arguments) =>
        ServerProcess.Start(Path.Combine(_scripts, "rabbitmqctl"), arguments, _environment);

    public int ReadProcessId() => TryReadProcessId() ?? throw new InvalidOperationException("RabbitMQ is not running.");

    /// <summary>The Erlang process, which is a child of the script that was started.</summary>
    public int? TryReadProcessId() =>
        File.Exists(PidFile) && int.TryParse(File.ReadAllText(PidFile).AsSpan().Trim(), CultureInfo.InvariantCulture, out var id) ? id : null;

    public void Delete()
    {
        if (Directory.Exists(_path))
            Directory.Delete(_path, recursive: true);
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);

    private void AddTls(X509Certificate2 certificate, List<string> lines)
    {
        var certificateFile = Path.Combine(_path, "certificate.pem");
        var keyFile = Path.Combine(_path, "key.pem");
        using var key = certificate.GetRSAPrivateKey() ?? throw new ArgumentException("The certificate has no RSA private key.", nameof(certificate));
        File.WriteAllText(certificateFile, certificate.ExportCertificatePem());
        File.WriteAllText(keyFile, key.ExportPkcs8PrivateKeyPem());
        lines.Add($"listeners.ssl.local = 127.0.0.1:{Text(TlsPort)}");
        lines.Add($"ssl_options.cacertfile = {certificateFile}");
        lines.Add($"ssl_options.certfile = {certificateFile}");
        lines.Add($"ssl_options.keyfile = {keyFile}");
        lines.Add("ssl_options.verify = verify_none");
    }
}
