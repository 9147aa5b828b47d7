<?php
// An upload form for uploadfs-mount --to 'form+https://HOST/api/uploads.php?ui=json', and for browsers.
//
// It keeps each file under its own name in the folder that the web server names as UPLOAD_FOLDER (nginx.conf shows how), or in
// a folder below it that the field “folder” names. A file of the same name is replaced. Who may upload is decided by the web
// server. How large a file may be is decided by php.ini (upload_max_filesize, post_max_size) and by the web server.

declare(strict_types=1);

function answer(int $status, array $json): never
{
    http_response_code($status);
    header('Content-Type: application/json');
    echo json_encode($json, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
    exit;
}

function bytes(string $setting): int
{
    return ini_parse_quantity(ini_get($setting));
}

// A relative path of plain names: no way leads out of the folder.
function path(string $text): ?string
{
    $parts = array_filter(explode('/', $text), fn ($part) => $part !== '' && $part !== '.');
    foreach ($parts as $part) {
        if ($part === '..' || str_contains($part, "\0") || str_contains($part, '\\')) {
            return null;
        }
    }
    return implode('/', $parts);
}

if ($_SERVER['REQUEST_METHOD'] === 'GET') {
    header('Content-Type: text/html; charset=utf-8');
    exit('<form method="post" enctype="multipart/form-data"><input type="file" name="file"><button>Upload</button></form>');
}
if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
    header('Allow: GET, POST');
    answer(405, ['error' => 'POST a form with a file']);
}

$length = (int) ($_SERVER['CONTENT_LENGTH'] ?? 0);
if (bytes('post_max_size') > 0 && $length > bytes('post_max_size')) {
    // PHP has thrown the whole body away.
    answer(413, ['error' => 'larger than post_max_size', 'limit' => bytes('post_max_size')]);
}
$file = $_FILES['file'] ?? null;
if ($file === null || is_array($file['error'])) {
    answer(400, ['error' => 'there is no field “file” with one file']);
}
match ($file['error']) {
    UPLOAD_ERR_OK => null,
    UPLOAD_ERR_INI_SIZE => answer(413, ['error' => 'larger than upload_max_filesize', 'limit' => bytes('upload_max_filesize')]),
    UPLOAD_ERR_PARTIAL, UPLOAD_ERR_NO_FILE => answer(400, ['error' => 'the file did not arrive']),
    default => answer(500, ['error' => 'PHP could not store the file', 'code' => $file['error']]),
};

$root = $_SERVER['UPLOAD_FOLDER'] ?? null;
$name = path($file['name']);
$folder = path($_POST['folder'] ?? '');
if ($root === null || !is_dir($root)) {
    answer(500, ['error' => 'UPLOAD_FOLDER is not set']);
}
if ($name === null || $name === '' || $folder === null) {
    answer(422, ['error' => 'the name cannot be used']);
}
$place = rtrim("$root/$folder", '/');
if (!is_dir($place) && !@mkdir($place, 0755, true) && !is_dir($place)) {
    answer(500, ['error' => 'the folder cannot be made']);
}
// Under another name first, so that nobody sees a part of it: PHP's folder may be on another disk.
$part = "$place/.upload-" . bin2hex(random_bytes(8));
if (!move_uploaded_file($file['tmp_name'], $part) || !rename($part, "$place/$name")) {
    answer(disk_free_space($place) < $file['size'] ? 507 : 500, ['error' => 'the file cannot be stored']);
}

$id = bin2hex(random_bytes(8));
if (($_GET['ui'] ?? '') !== 'json') {
    header('Content-Type: text/html; charset=utf-8');
    http_response_code(201);
    exit('Thank you.');
}
answer(201, [
    'id' => $id,
    'name' => ltrim("$folder/$name", '/'),
    'size' => $file['size'],
    'type' => $file['type'],
    'fields' => (object) $_POST,
]);
